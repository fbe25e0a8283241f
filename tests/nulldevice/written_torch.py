"""A torch of a few files, as an installer writes it."""


def write_torch(root, version="2.13.0+cu130", cuda="'13.0'", commit="abc", requires=""):
    """Writes a torch, its record last; returns its folder. ``requires`` are lines of metadata."""
    folder, info = root / "torch", root / f"torch-{version}.dist-info"
    (folder / "lib").mkdir(parents=True)
    text = (
        f"__all__ = ['cuda']\n__version__ = '{version}'\ncuda: str | None = {cuda}\n"
        f"git_version = '{commit}'\n"
    )
    (folder / "version.py").write_text(text)
    info.mkdir()
    (info / "METADATA").write_text(f"Name: torch\nRequires-Dist: filelock\n{requires}\n")
    (info / "RECORD").write_text(f"torch/version.py,sha256=x,{len(text)}\n{info.name}/RECORD,,\n")
    return folder
