"""torch.compile(backend="neuron")."""
