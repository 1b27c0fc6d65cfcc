"""What requests and answers carry: schemas, uploads, pictures, events, and the threads that encode and decode them."""
