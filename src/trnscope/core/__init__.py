"""The NeuronCore model: programs, schedules and the virtual clock."""
