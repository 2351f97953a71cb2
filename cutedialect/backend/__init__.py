"""From the `ptx` dialect to text, and from text to a result: printing, emulation, run time."""
