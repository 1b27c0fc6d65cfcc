"""What bits say: the class of an image, the likelihood of its known pixels, how unusual it is."""
