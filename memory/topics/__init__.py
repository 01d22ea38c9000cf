"""What research writes through: a topic's working memory, its seen addresses, its published copy."""
