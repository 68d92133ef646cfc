"""Program cache, virtual time of the process, profiling windows."""
