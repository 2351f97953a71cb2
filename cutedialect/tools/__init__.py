"""The command-line tools: `cute-opt` (text in, passes, text out) and the keeper of golden tests."""
