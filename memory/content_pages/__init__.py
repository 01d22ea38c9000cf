"""What a person does with the content store; its rules are in `memory.content`."""
