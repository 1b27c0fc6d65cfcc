"""Payloads of requests and answers: schemas, uploads, pictures, events, and the
threads that encode and decode them.
"""
