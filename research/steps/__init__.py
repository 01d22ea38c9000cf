"""The steps of a run that think: load, plan, judge, verify, save."""
