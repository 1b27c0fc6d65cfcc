"""Drawing the next byte of every image from its mixture, where the mixture is, without asking the host."""
