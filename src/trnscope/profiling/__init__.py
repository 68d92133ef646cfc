"""NeuronConfig, NeuronProfiler and the capture of a window."""
