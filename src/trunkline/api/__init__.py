"""The HTTP interface below `/api/v1` as a table of routes: the checks of what comes in, the OpenAPI
document and the reference page are all made of it.

It knows no feature. Each feature has its routes in a module `*_api.py`, and `app/api.py` puts them
together. Read `api.py` first, then `input.py` and `openapi.py`.
"""
