"""The torch_neuronx names that existing scripts import.

`finder` makes `import torch_neuronx` work where the real package is absent: the package `compat/torch_neuronx` beside
it is loaded under that name.
"""
