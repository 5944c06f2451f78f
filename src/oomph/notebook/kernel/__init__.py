"""Supervises a Jupyter kernel: starts it again when it dies, and says why under the cell in which it died.

`python -m oomph.notebook.kernel` takes the place of `python -m ipykernel_launcher` in a kernelspec (`spec`). It starts
`process` in a process group of its own (`supervise`). In the kernel, `inside` records which cell runs (`record`), and
answers the requests that the process before it left open (`answer`).
"""
