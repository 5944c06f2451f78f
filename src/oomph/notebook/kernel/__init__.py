"""Supervises a Jupyter kernel: starts it again after its death, and answers the cell that died under that cell.

`python -m oomph.notebook.kernel` takes the place of `python -m ipykernel_launcher` in a kernelspec (`spec`). It starts
`process` in a process group of its own (`supervise`). In the kernel, `inside` records which cell runs (`record`), and
answers for the process before it (`answer`).
"""
