"""What the server's host and the server itself say during a run, once a second, in one file.

A `Source` is read by one `Sampler` thread of the parent process, never of a load worker: `scrape`
(the server's /metrics), `resources` (its processes), `gpu` (NVML). `names` is the table of metrics
that are kept, `exposition` reads Prometheus' text.
"""
