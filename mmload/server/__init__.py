"""The embedded server: real HTTP, real decoding, a real processor, and an engine.

    app.py       HTTP; api_*.py: one API a file
    pipeline.py  a request's stages: media.py, renderer.py, engine.py
    build.py     which processor and which engine: simulated (by default), or a real model by torch
    serve.py     runs it in this process; `python -m mmload.server` in its own

It is instrumented by `mmload.hook` as any other server would be, and serves as the target of
`mmload run`. With the simulated engine answers are words of a fixed text.
"""
