"""The torch_neuronx names that existing scripts import."""
