"""What a language model's heads do, as lines and a picture: for a model that you don't know yet."""

from attention_helpers.language_model.head_roles import find_roles
from attention_helpers.plots import WEIGHTS, new_figure, show_figure


def show_roles(model, most=5, **how):
    """Print the heads found for each role, show all heads' scores in a figure, and return the Roles.

    most: heads per role that are printed. how: num_tokens, texts and seed, as in find_roles. Errors: as there.
    """
    roles = find_roles(model, **how)
    for role in roles:
        found = role.heads()
        print(f"{role.name}: {len(found)} of {role.scores.numel()} heads; control: {role.control}")
        for layer, head in found[:most]:
            score, control = role.scores[layer, head].item(), role.controls[layer, head].item()
            print(f"  layer {layer}, head {head}: {score:.2f}, control {control:.2f}")
    figure, axes = new_figure(columns=len(roles), width=3.4, height=3.2)
    for ax, role in zip(axes, roles, strict=True):
        ax.imshow((role.scores - role.controls).clamp(min=0).T, cmap=WEIGHTS, vmin=0, vmax=1, aspect="auto")
        ax.set(title=role.name, xlabel="layer", ylabel="head")
    best = "; ".join(f"{role.name}: {(role.scores - role.controls).max().item():.2f}" for role in roles)
    show_figure(figure, f"one square per head, stronger the more its weight exceeds its control. The most: {best}.")
    return roles
