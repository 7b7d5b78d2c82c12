"""What JupyterLab's server does before it saves a notebook: drop widgets that nobody could show again.

A widget's view names a model. A kernel holds it, or the file does; a view of a model that neither has is shown as an
error where the picture that was stored beside it could stand. Give to JupyterLab, in the course's folder:

    --ContentsManager.pre_save_hook=tools.setup.lab_hook.drop_dead_views
"""

VIEW, STATE = "application/vnd.jupyter.widget-view+json", "application/vnd.jupyter.widget-state+json"


def drop_dead_views(model, **_):
    """Drop from outputs, in place, each view whose widget the notebook does not hold; what else there is stays.

    model: what the server is about to save; what is no notebook, or none of this form, is left as it is.
    """
    held = part(model, "content", "metadata", "widgets", STATE, "state")
    for cell in part(model, "content", "cells", kind=list):
        for output in part(cell, "outputs", kind=list):
            data = part(output, "data")
            if len(data) > 1 and VIEW in data and str(part(data, VIEW).get("model_id")) not in held:
                del data[VIEW]


def part(holder, *path, kind=dict):
    """What nested dictionaries hold at the end of a path; an empty one if that is missing or of another kind."""
    for name in path:
        holder = holder.get(name) if isinstance(holder, dict) else None
    return holder if isinstance(holder, kind) else kind()
