"""Wrong ways to repair the broken class, each the whole text that a learner is left with."""

ONLY_WHAT_STOPS_IT = """
class SplitAttention(nn.Module):
    def __init__(self, d_in, d_out, num_heads):
        super().__init__()
        assert d_out % num_heads == 0, "num_heads must divide d_out"
        self.num_heads = num_heads
        self.W_query, self.W_key, self.W_value = (nn.Linear(d_in, d_out) for _ in range(3))
    def forward(self, x):
        wide = self.W_query(x), self.W_key(x), self.W_value(x)
        q, k, v = (w.view(*w.shape[:2], self.num_heads, -1).transpose(1, 2) for w in wide)
        scores = q @ k.transpose(2, 3) / k.shape[-1]**0.5
        hide = torch.ones_like(scores, dtype=torch.bool).triu(1)
        scores.masked_fill(hide, -torch.inf)
        weights = torch.softmax(scores, dim=-1)
        weights = torch.softmax(weights.masked_fill(hide, -torch.inf), dim=-1)
        return (weights @ v).transpose(1, 2).flatten(2)
"""

MASK_AND_SOFTMAX_TWICE = """
class SplitAttention(nn.Module):
    def __init__(self, d_in, d_out, num_heads):
        super().__init__()
        assert d_out % num_heads == 0, "num_heads must divide d_out"
        self.num_heads = num_heads
        self.W_query, self.W_key, self.W_value = (nn.Linear(d_in, d_out) for _ in range(3))
    def forward(self, x):
        wide = self.W_query(x), self.W_key(x), self.W_value(x)
        q, k, v = (w.view(*w.shape[:2], self.num_heads, -1).transpose(1, 2) for w in wide)
        scores = q @ k.transpose(2, 3) / k.shape[-1]**0.5
        hide = torch.ones_like(scores, dtype=torch.bool).triu(1)
        scores = scores.masked_fill(hide, -torch.inf)
        weights = torch.softmax(scores, dim=-1)
        weights = torch.softmax(weights.masked_fill(hide, -torch.inf), dim=-1)
        return (weights @ v).transpose(1, 2).flatten(2)
"""

SOFTMAX_TWICE_MASK_ONCE = """
class SplitAttention(nn.Module):
    def __init__(self, d_in, d_out, num_heads):
        super().__init__()
        assert d_out % num_heads == 0, "num_heads must divide d_out"
        self.num_heads = num_heads
        self.W_query, self.W_key, self.W_value = (nn.Linear(d_in, d_out) for _ in range(3))
    def forward(self, x):
        wide = self.W_query(x), self.W_key(x), self.W_value(x)
        q, k, v = (w.view(*w.shape[:2], self.num_heads, -1).transpose(1, 2) for w in wide)
        scores = q @ k.transpose(2, 3) / k.shape[-1]**0.5
        hide = torch.ones_like(scores, dtype=torch.bool).triu(1)
        scores = scores.masked_fill(hide, -torch.inf)
        weights = torch.softmax(scores, dim=-1)
        weights = torch.softmax(weights, dim=-1)
        return (weights @ v).transpose(1, 2).flatten(2)
"""

MASK_THROWN_AWAY = """
class SplitAttention(nn.Module):
    def __init__(self, d_in, d_out, num_heads):
        super().__init__()
        assert d_out % num_heads == 0, "num_heads must divide d_out"
        self.num_heads = num_heads
        self.W_query, self.W_key, self.W_value = (nn.Linear(d_in, d_out) for _ in range(3))
    def forward(self, x):
        wide = self.W_query(x), self.W_key(x), self.W_value(x)
        q, k, v = (w.view(*w.shape[:2], self.num_heads, -1).transpose(1, 2) for w in wide)
        scores = q @ k.transpose(2, 3) / k.shape[-1]**0.5
        hide = torch.ones_like(scores, dtype=torch.bool).triu(1)
        scores.masked_fill(hide, -torch.inf)
        weights = torch.softmax(scores, dim=-1)
        return (weights @ v).transpose(1, 2).flatten(2)
"""

HIDDEN_AFTER_THE_SOFTMAX = """
class SplitAttention(nn.Module):
    def __init__(self, d_in, d_out, num_heads):
        super().__init__()
        assert d_out % num_heads == 0, "num_heads must divide d_out"
        self.num_heads = num_heads
        self.W_query, self.W_key, self.W_value = (nn.Linear(d_in, d_out) for _ in range(3))
    def forward(self, x):
        wide = self.W_query(x), self.W_key(x), self.W_value(x)
        q, k, v = (w.view(*w.shape[:2], self.num_heads, -1).transpose(1, 2) for w in wide)
        scores = q @ k.transpose(2, 3) / k.shape[-1]**0.5
        hide = torch.ones_like(scores, dtype=torch.bool).triu(1)
        scores.masked_fill(hide, -torch.inf)
        weights = torch.softmax(scores, dim=-1)
        weights = weights.masked_fill(hide, 0)
        return (weights @ v).transpose(1, 2).flatten(2)
"""

WITHOUT_SCALE = """
class SplitAttention(nn.Module):
    def __init__(self, d_in, d_out, num_heads):
        super().__init__()
        assert d_out % num_heads == 0, "num_heads must divide d_out"
        self.num_heads = num_heads
        self.W_query, self.W_key, self.W_value = (nn.Linear(d_in, d_out) for _ in range(3))
    def forward(self, x):
        wide = self.W_query(x), self.W_key(x), self.W_value(x)
        q, k, v = (w.view(*w.shape[:2], self.num_heads, -1).transpose(1, 2) for w in wide)
        scores = q @ k.transpose(2, 3)
        hide = torch.ones_like(scores, dtype=torch.bool).triu(1)
        scores = scores.masked_fill(hide, -torch.inf)
        weights = torch.softmax(scores, dim=-1)
        return (weights @ v).transpose(1, 2).flatten(2)
"""

SCALED_BY_THE_WIDTH_OF_THE_INPUT = """
class SplitAttention(nn.Module):
    def __init__(self, d_in, d_out, num_heads):
        super().__init__()
        assert d_out % num_heads == 0, "num_heads must divide d_out"
        self.num_heads = num_heads
        self.W_query, self.W_key, self.W_value = (nn.Linear(d_in, d_out) for _ in range(3))
    def forward(self, x):
        wide = self.W_query(x), self.W_key(x), self.W_value(x)
        q, k, v = (w.view(*w.shape[:2], self.num_heads, -1).transpose(1, 2) for w in wide)
        scores = q @ k.transpose(2, 3) / x.shape[-1]**0.5
        hide = torch.ones_like(scores, dtype=torch.bool).triu(1)
        scores = scores.masked_fill(hide, -torch.inf)
        weights = torch.softmax(scores, dim=-1)
        return (weights @ v).transpose(1, 2).flatten(2)
"""

SCALED_BY_THE_WIDTH_OF_ALL_HEADS = """
class SplitAttention(nn.Module):
    def __init__(self, d_in, d_out, num_heads):
        super().__init__()
        assert d_out % num_heads == 0, "num_heads must divide d_out"
        self.num_heads = num_heads
        self.W_query, self.W_key, self.W_value = (nn.Linear(d_in, d_out) for _ in range(3))
    def forward(self, x):
        wide = self.W_query(x), self.W_key(x), self.W_value(x)
        q, k, v = (w.view(*w.shape[:2], self.num_heads, -1).transpose(1, 2) for w in wide)
        scores = q @ k.transpose(2, 3) / wide[1].shape[-1]**0.5
        hide = torch.ones_like(scores, dtype=torch.bool).triu(1)
        scores = scores.masked_fill(hide, -torch.inf)
        weights = torch.softmax(scores, dim=-1)
        return (weights @ v).transpose(1, 2).flatten(2)
"""
