"""Experts and weights that the routers of transformers choose.

    python make_router.py OUT.json

The router's weight is the identity, so that its input is its logits. Per case: `spec` in Penstock's names, `bias`, and per
token `logits`, `experts` (heaviest choice first) and `weights`. No two of a
token's scores are closer than 1e-7.
"""
import argparse
import json
import pathlib

import torch
from common import *  # noqa: F401,F403
from transformers import Glm4MoeConfig, MixtralConfig, Qwen3MoeConfig
from transformers.models.glm4_moe.modeling_glm4_moe import Glm4MoeTopkRouter
from transformers.models.mixtral.modeling_mixtral import MixtralTopKRouter
from transformers.models.qwen3_moe.modeling_qwen3_moe import Qwen3MoeTopKRouter

N_TOKENS = 12


def mixtral(n, k):
    return (MixtralTopKRouter(MixtralConfig(hidden_size=n, num_local_experts=n, num_experts_per_tok=k)),
            {"score": "softmax", "renormalize": True})


def qwen3_moe(n, k, renormalize):
    config = Qwen3MoeConfig(hidden_size=n, num_experts=n, num_experts_per_tok=k, norm_topk_prob=renormalize)
    return Qwen3MoeTopKRouter(config), {"score": "softmax", "renormalize": renormalize}


def glm4_moe(n, k, groups, top_groups, renormalize, scale):
    config = Glm4MoeConfig(hidden_size=n, num_local_experts=n, n_routed_experts=n, num_experts_per_tok=k, n_group=groups,
                           topk_group=top_groups, norm_topk_prob=renormalize, routed_scaling_factor=scale)
    router = Glm4MoeTopkRouter(config)
    router.e_score_correction_bias.copy_(0.2 * torch.randn(n, generator=torch.Generator().manual_seed(3)))
    return router, {"score": "sigmoid", "renormalize": renormalize, "n_groups": groups, "top_groups": top_groups,
                    "scale": scale}


def steering(router, logits):
    """The scores by which experts are ordered: what the router's own top-k saw, groups aside."""
    if hasattr(router, "e_score_correction_bias"):
        return logits.sigmoid() + router.e_score_correction_bias
    return logits.softmax(-1)


def case(name, router, spec, n, k):
    router.weight.copy_(torch.eye(n))
    logits = 2 * torch.randn(N_TOKENS, n, generator=torch.Generator().manual_seed(11))
    _, weights, experts = router(logits)
    scores = steering(router, logits)
    order = scores.gather(1, experts).argsort(dim=-1, descending=True)
    ranked = scores.sort(dim=-1, descending=True)[0]
    assert (ranked[:, :-1] - ranked[:, 1:]).min() > 1e-7, name
    tokens = [{"logits": l.tolist(), "experts": e.tolist(), "weights": w.tolist()}
              for l, e, w in zip(logits, experts.gather(1, order), weights.gather(1, order))]
    bias = getattr(router, "e_score_correction_bias", None)
    return {"name": name, "spec": spec, "bias": [] if bias is None else bias.tolist(), "tokens": tokens}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    out = parser.parse_args().out
    cases = [
        case("mixtral", *mixtral(8, 2), 8, 2),
        case("qwen3_moe", *qwen3_moe(32, 4, False), 32, 4),
        case("qwen3_moe, renormalised", *qwen3_moe(32, 8, True), 32, 8),
        case("glm4_moe", *glm4_moe(16, 4, 1, 1, True, 1.0), 16, 4),
        case("deepseek_v3's groups", *glm4_moe(32, 6, 8, 4, True, 2.5), 32, 6),
        case("groups, not renormalised", *glm4_moe(16, 2, 4, 1, False, 1.5), 16, 2),
    ]
    out.write_text(json.dumps({"cases": cases}, indent=1) + "\n")


if __name__ == "__main__":
    main()
