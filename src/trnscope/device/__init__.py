"""The PyTorch device `neuron`."""
