"""What every step of a run works with: its hold on the run, the pages, what is known and asked."""
