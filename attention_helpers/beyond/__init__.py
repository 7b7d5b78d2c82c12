"""What the later notebooks need beside the small package: training, characters, faster layers and what they cost."""
