"""NaN and infinity in the loss or the weights are reported once."""

from __future__ import annotations

from oomph.monitor.detection import Detection
from oomph.monitor.detectors.training import not_finite
from oomph.monitor.sample import Sample


def found(*trainings):
    detection = Detection((not_finite,))
    return [f for n, training in enumerate(trainings) for f in detection.take(Sample(float(n), training=training)).told]


def test_finite_values_do_not_cause_a_finding():
    assert not found({}, {"loss": 0.3, "not_finite_loss": 0.0, "not_finite_weights": 0.0})


def test_non_finite_weights_with_a_finite_loss_are_detected():
    at = {"loss": 0.25, "not_finite_loss": 0.0, "not_finite_weights": 1200.0, "epoch": 2.0, "step_of_epoch": 7.0}
    (finding,) = found(at, at)
    assert (finding.fault, finding.subject, finding.severity) == ("nan-loss", "weights", "critical")
    assert finding.message == "1,200 weights are NaN or infinite at epoch 2, step 7 although the loss is 0.25"


def test_non_finite_loss_gets_no_separate_weight_finding():
    findings = found({"not_finite_loss": 1.0}, {"not_finite_loss": 1.0, "not_finite_weights": 1.0})
    assert [finding.subject for finding in findings] == ["loss"]
    (both,) = found({"not_finite_loss": 1.0, "not_finite_weights": 1.0})
    assert both.message == "the loss is NaN or infinite, and one weight is as well"
