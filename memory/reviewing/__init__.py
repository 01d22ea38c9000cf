"""Who may write: what agents write is stored, held for a person, set aside or refused."""
