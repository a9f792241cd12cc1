"""Tables of facts, written by the scripts under tools/."""
