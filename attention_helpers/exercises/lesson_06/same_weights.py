"""Random weights, given to a learner's layer and to torch's."""

import torch
from torch import nn
from torch.nn.functional import pad

from ...core import causal_mask


def linears(generator, d_in, d_out, qkv_bias):
    """The four layers of attention, by name, with random weights, the smaller the more inputs they add up."""
    layers = nn.ModuleDict({name: nn.Linear(d_in, d_out, qkv_bias) for name in ("W_query", "W_key", "W_value")})
    layers["out_proj"] = nn.Linear(d_out, d_out)
    for layer in layers.values():
        for parameter in layer.parameters():
            nn.init.normal_(parameter, std=layer.in_features**-0.5, generator=generator)
    return layers


def run_with(layer, given, x):
    """layer(x), once the layer has the given layers' weights, name by name."""
    for name, linear in given.items():
        own = getattr(layer, name, None)
        if repr(own) != repr(linear):
            raise TypeError(f"self.{name} must be {linear}, got {own}")
        own.load_state_dict(linear.state_dict())
    return layer(x)


def torchs_own(num_heads, given, x):
    """What torch.nn.MultiheadAttention makes of the same weights. It knows no d_in but d_out: zeros widen the input."""
    d_in, d_out = given["W_query"].in_features, given["W_query"].out_features
    own, wide = nn.MultiheadAttention(d_out, num_heads, batch_first=True), pad(x, (0, d_out - d_in))
    three = [given[name] for name in ("W_query", "W_key", "W_value")]
    with torch.no_grad():
        own.in_proj_weight.copy_(pad(torch.cat([linear.weight for linear in three]), (0, d_out - d_in)))
        if three[0].bias is not None:
            own.in_proj_bias.copy_(torch.cat([linear.bias for linear in three]))  # zeros otherwise
        own.out_proj.load_state_dict(given["out_proj"].state_dict())
    return own(wide, wide, wide, attn_mask=causal_mask(x.shape[1]), need_weights=False)[0]
