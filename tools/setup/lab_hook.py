"""What JupyterLab's server does before it saves a notebook: explorers are stored as their pictures, without widgets.

A notebook that's opened again has no kernel that knows its widgets, so Lab would show them dead. The open page hears
nothing of this and stays live. Give to JupyterLab, in the course's folder:

    --ContentsManager.pre_save_hook=tools.setup.lab_hook.drop_dead_views
"""

VIEW, SVG = "application/vnd.jupyter.widget-view+json", "image/svg+xml"


def drop_dead_views(model, **_):
    """Drop each widget's view whose output also holds a picture, and a progress bar as a whole; others stay.

    model: what the server is about to save; only a notebook is changed.
    """
    if model["type"] != "notebook":
        return
    for cell in model["content"]["cells"]:
        for output in cell.get("outputs", []):
            if SVG in output.get("data", {}):
                output["data"].pop(VIEW, None)
        if "outputs" in cell:
            cell["outputs"] = [output for output in cell["outputs"] if not is_bar(output.get("data", {}))]


def is_bar(data):
    return VIEW in data and "%|" in "".join(data.get("text/plain", ""))
