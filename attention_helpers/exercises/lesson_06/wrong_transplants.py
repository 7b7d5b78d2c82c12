"""Wrong ways to give a wrapper's weights to the split class: each is `transplant` with one mistake."""

import torch

NAMES = ("W_query", "W_key", "W_value")


@torch.no_grad()
def joined_along_dimension_1(wrapper, split):
    for name in NAMES:
        parts = [head.get_submodule(name) for head in wrapper.heads]
        target = split.get_submodule(name)
        target.weight.copy_(torch.cat([part.weight for part in parts], dim=1))
        if target.bias is not None:
            target.bias.copy_(torch.cat([part.bias for part in parts]))
    split.out_proj.weight.copy_(torch.eye(split.d_out))
    split.out_proj.bias.zero_()


@torch.no_grad()
def joined_along_dimension_1_and_transposed(wrapper, split):
    for name in NAMES:
        parts = [head.get_submodule(name) for head in wrapper.heads]
        target = split.get_submodule(name)
        target.weight.copy_(torch.cat([part.weight for part in parts], dim=1).T)
        if target.bias is not None:
            target.bias.copy_(torch.cat([part.bias for part in parts]))
    split.out_proj.weight.copy_(torch.eye(split.d_out))
    split.out_proj.bias.zero_()


@torch.no_grad()
def three_matrices_alone(wrapper, split):
    for name in NAMES:
        parts = [head.get_submodule(name) for head in wrapper.heads]
        target = split.get_submodule(name)
        target.weight.copy_(torch.cat([part.weight for part in parts]))


@torch.no_grad()
def without_out_proj(wrapper, split):
    for name in NAMES:
        parts = [head.get_submodule(name) for head in wrapper.heads]
        target = split.get_submodule(name)
        target.weight.copy_(torch.cat([part.weight for part in parts]))
        if target.bias is not None:
            target.bias.copy_(torch.cat([part.bias for part in parts]))


@torch.no_grad()
def without_the_bias_of_out_proj(wrapper, split):
    for name in NAMES:
        parts = [head.get_submodule(name) for head in wrapper.heads]
        target = split.get_submodule(name)
        target.weight.copy_(torch.cat([part.weight for part in parts]))
        if target.bias is not None:
            target.bias.copy_(torch.cat([part.bias for part in parts]))
    split.out_proj.weight.copy_(torch.eye(split.d_out))


@torch.no_grad()
def without_the_biases_of_queries_keys_and_values(wrapper, split):
    for name in NAMES:
        parts = [head.get_submodule(name) for head in wrapper.heads]
        target = split.get_submodule(name)
        target.weight.copy_(torch.cat([part.weight for part in parts]))
    split.out_proj.weight.copy_(torch.eye(split.d_out))
    split.out_proj.bias.zero_()


@torch.no_grad()
def with_queries_and_keys_mixed_up(wrapper, split):
    for name, other in zip(NAMES, ("W_key", "W_query", "W_value"), strict=True):
        parts = [head.get_submodule(name) for head in wrapper.heads]
        target = split.get_submodule(other)
        target.weight.copy_(torch.cat([part.weight for part in parts]))
        if target.bias is not None:
            target.bias.copy_(torch.cat([part.bias for part in parts]))
    split.out_proj.weight.copy_(torch.eye(split.d_out))
    split.out_proj.bias.zero_()


@torch.no_grad()
def from_last_head_to_first(wrapper, split):
    for name in NAMES:
        parts = [head.get_submodule(name) for head in reversed(wrapper.heads)]
        target = split.get_submodule(name)
        target.weight.copy_(torch.cat([part.weight for part in parts]))
        if target.bias is not None:
            target.bias.copy_(torch.cat([part.bias for part in parts]))
    split.out_proj.weight.copy_(torch.eye(split.d_out))
    split.out_proj.bias.zero_()
