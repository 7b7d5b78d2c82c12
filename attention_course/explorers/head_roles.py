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
        for at in found[:most]:
            print(f"  layer {at[0]}, head {at[1]}: {role.scores[at]:.2f}, control {role.controls[at]:.2f}")
    figure, axes = new_figure(columns=len(roles), width=3.4, height=3.2)
    for ax, role in zip(axes, roles, strict=True):
        ax.imshow((role.scores - role.controls).clamp(min=0).T, cmap=WEIGHTS, vmin=0, vmax=1, aspect="auto")
        ax.set(title=role.name, xlabel="layer", ylabel="head")
    gaps = [role.scores.round(decimals=2) - role.controls.round(decimals=2) for role in roles]  # of what's printed
    best = "; ".join(f"{role.name}: {gap.max().item():.2f}" for role, gap in zip(roles, gaps, strict=True))
    show_figure(figure, f"one square per head, stronger the more its weight exceeds its control. The most: {best}.")
    return roles
