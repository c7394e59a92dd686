"""What each figure of a report means, one sentence each: peers disagree on all of them."""

from typing import Final

DEFINITIONS: Final[dict[str, str]] = {
    "intended time": (
        "When the schedule said to send a request; headline latencies count from it, so waiting"
        " that a slow server or client causes is in them."
    ),
    "lag": "Sent minus intended time: how late the generator let a request go.",
    "TTFT": (
        "First output minus intended time; output is non-empty content, reasoning, refusal or tool"
        " arguments, never a role chunk, a ping or an empty delta."
    ),
    "TTFT from sent": "First output minus send time, as other tools count it.",
    "TTFO": "First output that is not reasoning minus intended time.",
    "n": (
        "Output tokens of a request as the server's usage says, reasoning included; without usage"
        " its output chunks, and `tokens.source` says which."
    ),
    "TPOT": (
        "(Last output - first output) / (n - 1) of a request; absent, never 0, when n < 2 or there"
        " was one chunk."
    ),
    "ICL": (
        "Gap between two output chunks of an ok request (`chunk_gap_ms`); not a time per token,"
        " because a chunk may hold several."
    ),
    "E2E": "Last output minus intended time.",
    "E2E from sent": "Last output minus send time.",
    "percentile": (
        "Nearest rank: the smallest recorded value that at least this share of the ok requests do"
        " not exceed; never interpolated, never of failed requests."
    ),
    "achieved rate": "(Sent - 1) / (last send - first send).",
    "stage time": (
        "The sum of a request's spans of that stage (`ms`), or only the time that no later-started"
        " work of the same request covers (`self_ms`); client stages are seen from the client."
    ),
    "accept wait": (
        "End of the client's send to the first span of the server: the network, the socket's queue"
        " and the server's reading of it."
    ),
    "unattributed": (
        "Wall time of a request that no stage claims: the stages and it sum to E2E exactly."
    ),
    "backlog": (
        "Requests that have arrived (intended time) and not yet left (last output, or the close of"
        " a failure); for a stage, its spans that are open."
    ),
    "growth": "Least-squares slope of the backlog over the time in which requests arrive.",
    "verdict of a queue": (
        "Growing: the medians of 10 batches in arrival order rise (Mann-Kendall; by 5 %, and by"
        " 0.005 s a second, as an overload of 0.5 % makes them, or by half) and over the second"
        " half the backlog gained more than 2 / sqrt(arrivals) of them, times how uneven arrivals"
        " and departures are (1 for a Poisson stream and exponential service); stable: neither,"
        " and an overload of 25 % would have shown; else can't tell."
    ),
    "utilisation": (
        "Arrival rate x mean service time / width, where width is the pool's size as the server"
        " says, else the most spans ever open at once; of a batched stage, the share of time it"
        " was busy."
    ),
    "capacity": "Width / mean service time: the rate at which utilisation would be 1.",
    "capacity of an engine": (
        "Stages that take turns on one device: at most engines / the time that a request has the"
        " device for itself, at least the rate served / the share of the arrivals' time in which"
        " any of its stages had work (batched steps are shared by more requests as the rate rises)."
    ),
    "media tokens by the arithmetic": (
        "Placeholder tokens that the model family's published processor makes of media of that size"
        " and number of frames; the frames that a server used are found backwards from its count."
    ),
    "exact and contains": (
        "Shares of answers that are one of the expected, and that hold one as whole words, without"
        " regard to case, blanks and dots at the end; failed requests are left out."
    ),
    "VQA accuracy": (
        "Mean over the annotators of min(1, others who gave this answer / 3), after the official"
        " normalisation of punctuation, articles, number words and contractions."
    ),
    "precision, recall and F1": (
        "Of yes-or-no answers, as POPE counts them: yes is positive, the first sentence decides,"
        " and an answer with neither no nor not is a yes."
    ),
    "std dev": "Sample standard deviation, over n - 1.",
}
