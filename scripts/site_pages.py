"""Hook of mkdocs: pages of the changelog and of every notebook in `docs/`, with the outputs stored in it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for each notebook, which remains as a download, and for the changelog, with links from `docs/`."""
    for file in [file for file in files if file.src_uri.endswith(".ipynb")]:
        notebook = json.loads(Path(str(file.abs_src_path)).read_text(encoding="utf-8"))
        name = Path(file.src_uri)
        text = "\n\n".join(part for cell in notebook["cells"] for part in parts(cell))
        download = f"\n\n[Download this page as a notebook]({name.name})\n"
        files.append(File.generated(config, str(name.with_suffix(".md")), content=text + download))
    changelog = Path(config.docs_dir).with_name("CHANGELOG.md").read_text(encoding="utf-8")
    files.append(File.generated(config, "changelog.md", content=changelog.replace("](docs/", "](")))
    return files


def parts(cell: Mapping[str, Any]) -> Iterator[str]:
    """Return a cell as Markdown: its text, or its program followed by the printed and drawn outputs."""
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        yield source
        return
    yield f"```python\n{source}\n```"
    for output in cell["outputs"]:
        data = output.get("data", {})
        if "image/png" in data:
            yield f"![What the program above draws](data:image/png;base64,{data['image/png'].strip()})"
        else:
            printed = "".join(output.get("text") or data["text/plain"]).rstrip()
            yield f"```text\n{printed}\n```"
