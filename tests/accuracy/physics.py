"""What is likely missing where a group is far off: a sentence a cause, by hardware, model and the sign of the bias."""

# (hardware begins with, model holds, sign of the bias or 0, sentence); the first that fits is printed.
CAUSES = [
    ("h200", "Qwen3-235B", -1, "sweep of one engine release that is 1.5–4 times slow"),
    ("", "gpt-oss", 1, "batches of 1000 and more in grouped kernels; kernel choice by release"),
    ("h200", "gpt-oss", -1, "grouped kernels of Hopper for mxfp4 start slowly in prefill"),
    ("", "Qwen3.5", -1, "prefill of linear layers; kernels by release"),
    ("", "GLM-5", -1, "prefill of the indexer of sparse attention"),
    ("h200", "DeepSeek", -1, "waits for full batches with attention data parallelism; speculative rows in the table"),
    ("", "DeepSeek", 0, "rows with speculative decoding are not marked in the table"),
    ("h20-", "", -1, "host-bound: eager mode or a slow host, in no column"),
    ("rtx5090", "", -1, "host-bound: eager mode or a slow host, in no column"),
    ("v100s", "", 0, "PCIe topology of eight devices; kernels for Volta"),
    ("rtx4090", "", 0, "PCIe topology without peer access"),
    ("a100-pcie", "", 1, "PCIe topology"),
    ("l40s", "", 1, "PCIe topology"),
    ("", "Mixtral", -1, "prompt lengths not stated; run at the highest rate that passes"),
    ("mi300x", "405B", 0, "batch of the run is not stated; engine of 2024"),
    ("", "Qwen2.5-0.5B", 0, "bound by the host and the client"),
    ("", "Llama-3.1-8B", -1, "bound by the host and the client; lengths not stated"),
    ("", "Llama-2-70b", -1, "run at the highest rate that passes: an error of the step time is multiplied by 1 / (1 - load)"),
    ("h100", "Qwen3-32B", 0, "steps that carry prompts run without graphs: their host cost"),
    ("", "bloom", -1, "eager engine of 2023"),
]


def missing_physics(hw, model, bias):
    for start, part, sign, sentence in CAUSES:
        if hw.startswith(start) and part in model and (sign == 0 or sign * bias > 0):
            return sentence
    return ""
