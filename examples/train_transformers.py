"""Train a small Llama or BERT of Hugging Face `transformers` on a NeuronCore, and hold it against the CPU.

The model is built from a configuration with random weights: nothing is downloaded. The same weights and batches train
on the CPU and on the device (forward, backward, AdamW); every loss and every parameter gradient of every step is
compared, and the device run is profiled:

    python examples/train_transformers.py --model llama
    python examples/train_transformers.py --model bert --compile
"""

import argparse
import copy
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass

import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile
from torch_neuronx.profiling import NeuronConfig, NeuronProfiler, ProfileMode
from transformers import BertConfig, BertForMaskedLM, LlamaConfig, LlamaForCausalLM, PreTrainedModel

VOCABULARY = 128
LOSS_TOLERANCE = 1e-5
"""Allowed difference of a loss, relative to the CPU's."""
GRADIENT_TOLERANCE = 1e-4
"""Allowed difference of a gradient element, relative to the largest element of that gradient on the CPU (or to 1e-3
where the whole gradient is smaller than that, since it is rounding noise then)."""


def llama() -> PreTrainedModel:
    """Two layers with grouped-query attention, RMSNorm, rotary embedding and SwiGLU."""
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        use_cache=False,
    )
    return LlamaForCausalLM(config)


def bert() -> PreTrainedModel:
    """Two layers with layer norm and GELU. No dropout, so that both devices compute the same."""
    config = BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=64,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    return BertForMaskedLM(config)


MODELS: dict[str, Callable[[], PreTrainedModel]] = {"llama": llama, "bert": bert}


@dataclass
class Step:
    """Loss and gradients (by parameter name, on the CPU) of one training step."""

    loss: float
    gradients: dict[str, torch.Tensor]


def train(model: torch.nn.Module, batches: list[torch.Tensor], forward: torch.nn.Module) -> list[Step]:
    """Train for one step per batch. `forward` is the model itself or its compiled form."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    steps = []
    for batch in batches:
        optimizer.zero_grad()
        loss = forward(input_ids=batch, labels=batch).loss
        loss.backward()
        gradients = {name: p.grad.cpu().clone() for name, p in model.named_parameters() if p.grad is not None}
        optimizer.step()
        steps.append(Step(loss.item(), gradients))
    return steps


@dataclass
class Comparison:
    """How far the device is from the CPU; the worst of all steps."""

    model: str
    compiled: bool
    losses: list[float]
    loss_difference: float
    gradients_compared: int
    gradient_difference: float
    worst_gradient: str
    executions: int
    device_us: float

    def within_tolerance(self) -> bool:
        """Whether every loss and gradient is as near to the CPU's as promised."""
        return self.loss_difference <= LOSS_TOLERANCE and self.gradient_difference <= GRADIENT_TOLERANCE


def gradient_differences(expected: Step, actual: Step) -> dict[str, float]:
    """Largest difference of each gradient, relative as `GRADIENT_TOLERANCE` says."""
    if expected.gradients.keys() != actual.gradients.keys():
        raise AssertionError(f"other gradients: {sorted(expected.gradients.keys() ^ actual.gradients.keys())}")
    differences = {}
    for name, gradient in expected.gradients.items():
        scale = max(gradient.abs().max().item(), 1e-3)
        differences[name] = (actual.gradients[name] - gradient).abs().max().item() / scale
    return differences


def compare(name: str, compiled: bool, steps: int, out: str) -> Comparison:
    """Train on both devices from equal weights and compare."""
    torch.manual_seed(0)
    on_cpu = MODELS[name]()
    on_device = copy.deepcopy(on_cpu).to("neuron")
    on_device.tie_weights()  # moving to a device that is no part of PyTorch itself makes new, untied parameters
    batches = [torch.randint(0, VOCABULARY, (2, 32)) for _ in range(steps)]
    forward = torch.compile(on_device, backend="neuron", dynamic=False) if compiled else on_device

    expected = train(on_cpu, batches, on_cpu)
    config = NeuronConfig(modes=[ProfileMode.RUNTIME], profile_output_dir=out, correlate_device_time=True)
    with profile(
        activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1],
        experimental_config=config,
        on_trace_ready=NeuronProfiler(config).export_trace,
    ) as prof:
        actual = train(on_device, [batch.to("neuron") for batch in batches], forward)
        torch.neuron.synchronize()

    differences = [gradient_differences(e, a) for e, a in zip(expected, actual, strict=True)]
    worst_gradient, worst = max((item for step in differences for item in step.items()), key=lambda item: item[1])
    events = [event for event in prof.events() if event.device_type == DeviceType.PrivateUse1]
    return Comparison(
        model=name,
        compiled=compiled,
        losses=[step.loss for step in actual],
        loss_difference=max(abs(a.loss - e.loss) / abs(e.loss) for e, a in zip(expected, actual, strict=True)),
        gradients_compared=sum(len(step) for step in differences),
        gradient_difference=worst,
        worst_gradient=worst_gradient,
        executions=len(events),
        device_us=sum(event.time_range.elapsed_us() for event in events),
    )


def main() -> int:
    """Compare as the command line says; 1 when a tolerance is exceeded."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=sorted(MODELS), default="llama")
    parser.add_argument("--compile", action="store_true", help="run the model under torch.compile(backend='neuron')")
    parser.add_argument("--steps", type=int, default=3, help="training steps (default %(default)s)")
    parser.add_argument("--out", default="./output", help="directory of the capture (default %(default)s)")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text")
    given = parser.parse_args()
    if given.steps < 1:
        parser.error(f"--steps is at least 1, given {given.steps}")

    result = compare(given.model, given.compile, given.steps, given.out)
    if given.json:
        print(json.dumps({**asdict(result), "within_tolerance": result.within_tolerance()}, indent=2))
    else:
        print(f"{result.model}, {'compiled' if result.compiled else 'eager'}, {given.steps} steps of AdamW on neuron")
        print(f"  losses                      {', '.join(f'{loss:.6f}' for loss in result.losses)}")
        print(f"  largest loss difference     {result.loss_difference:.1e} of the CPU's (allowed {LOSS_TOLERANCE:.0e})")
        print(
            f"  largest gradient difference {result.gradient_difference:.1e} (allowed {GRADIENT_TOLERANCE:.0e}), "
            f"in {result.worst_gradient}; {result.gradients_compared} gradients compared"
        )
        print(f"  device                      {result.executions} executions, {result.device_us:,.0f} us")
    return 0 if result.within_tolerance() else 1


if __name__ == "__main__":
    raise SystemExit(main())
