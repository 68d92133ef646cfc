"""What happens between dispatch and device: signatures, the program cache, the process's virtual clock, windows.

The device extension records; this package gives the records durations and places them on the virtual clock, in small
portions outside of profiling windows (so that memory stays flat) and as a whole for a window.
"""
