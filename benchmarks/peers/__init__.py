"""What a researcher would use instead of the library, each measured the same way, in its own process if need be."""
