"""The daemon's HTTP and WebSocket interface. Thin: it reads, asks a service, and writes.

One list of routes (`routes.py`) makes the dispatch, the OpenAPI document and the page of `/docs`.
"""
