"""Does it learn? Impossible Q values, identical critics, a temperature that grows without limit, success that does not improve."""

from __future__ import annotations

import math

import numpy as np

from tandem.doctor import limits
from tandem.doctor.findings import NOTE, PROBLEM, WARNING, Finding, Share
from tandem.doctor.records import Records
from tandem.doctor.values import summed_up
from tandem.layouts import ActionLayout


def critic_diverged(records: Records) -> Finding | None:
    """There was a recent roll-back, or Q is far beyond the largest return."""
    now = records.clocks.learner_step
    back = records.events_of("rolled_back")
    # with entropy in the target, Q exceeds the returns by far; the learner judges such values itself and rolls back
    known = records.spec.return_range is not None and not records.setting("backup_entropy")
    bound = max(abs(value) for value in records.spec.return_range or ()) if known else None
    qs = records.newest("critic/predicted_qs", 5)
    beyond = bound is not None and len(qs) > 0 and not (np.abs(qs) <= limits.DIVERGED_Q * bound).all()
    recent = [event for event in back if now - event.get("learner_step", 0) <= limits.RECENT_STEPS]
    if not back and not beyond:
        return None
    kept = next((str(path) for path in reversed(records.broken) if path.name.startswith("batch")), None)
    facts = {
        "times": len(back) or None,
        "detail": back[-1].get("problem") if back else None,
        "q": float(qs[-1]) if beyond else None,
        "bound": bound if beyond else None,
        "file": kept,
        "learning_rate": records.setting("learning_rate"),
    }
    return Finding("critic_diverged", PROBLEM if recent or beyond else NOTE, facts)


def q_overestimated(records: Records) -> Finding | None:
    qs = records.newest("critic/predicted_qs", 20)
    if records.spec.return_range is None or not len(qs) or records.clocks.learner_step < 200 or records.setting("backup_entropy"):
        return None
    low, high = records.spec.return_range
    margin = limits.OVERESTIMATED * (high - low)
    outside = (qs > high + margin) | (qs < low - margin)
    if outside.mean() < 0.5:
        return None
    return Finding("q_overestimated", WARNING, {"q": float(np.median(qs)), "low": low, "high": high})


def actions_look_alike(records: Records) -> Finding | None:
    """The critics value a demonstrated action hardly above a random one, and the policy does not succeed."""
    seen, success = summed_up(records.values), records.newest("environment/episode/success", 20)
    if seen is None or records.clocks.learner_step < limits.RECENT_STEPS or not len(success) or float(success.mean()) > 0.5:
        return None
    if seen.gap >= max(limits.GAP_OF_VALUE * abs(seen.q), limits.GAP_OF_SPREAD * seen.spread):
        return None
    facts = {
        "gap": seen.gap,
        "spread": seen.spread,
        "q": seen.q,
        "q_at_start": seen.q_at_start,
        "return_at_start": seen.return_at_start,
        "decisions": int(records.setting("decision_steps", 1) or 1),
        "file": str(records.demos[0].path) if records.demos else None,
    }
    return Finding("actions_look_alike", WARNING, facts)


def ensemble_collapsed(records: Records) -> Finding | None:
    differ, size = records.critics_differ, records.setting("critic_ensemble_size", 2)
    if differ is None or size < 2 or differ > limits.COLLAPSED:
        return None
    return Finding("ensemble_collapsed", WARNING, {"size": size, "difference": differ})


def temperature_runaway(records: Records) -> Finding | None:
    values, first = records.newest("actor/temperature", 10), records.setting("temperature_init", 0.01)
    if not len(values) or not values[-1] > max(1.0, limits.HOT_TEMPERATURE * first):
        return None
    return Finding("temperature_runaway", WARNING, {"temperature": float(values[-1]), "initial": first})


def _axes(records: Records) -> int:
    """Columns of the action that have an entropy: its axes, not its choices."""
    return int((~ActionLayout.of(records.spec).is_discrete).sum())


def entropy_collapsed(records: Records) -> Finding | None:
    values, size = records.newest("actor/entropy", 10), _axes(records)
    target = records.setting("target_entropy")
    target = -size / 2 if target is None else target
    if not len(values) or records.clocks.learner_step < 500 or not float(values.max()) < target - limits.ENTROPY_BELOW * size:
        return None
    return Finding("entropy_collapsed", WARNING, {"entropy": float(values[-1]), "target": target})


def entropy_high(records: Records) -> Finding | None:
    """The actions are still as random as uniform ones, late in training."""
    values = records.newest("actor/entropy", 10)
    uniform = _axes(records) * math.log(2)
    if (
        not len(values)
        or records.clocks.learner_step < 2 * limits.RECENT_STEPS
        or not float(values.min()) > limits.ENTROPY_UNIFORM * uniform
    ):
        return None
    return Finding("entropy_high", WARNING, {"entropy": float(values[-1]), "uniform": uniform})


def critic_loss_rising(records: Records) -> Finding | None:
    steps, losses = records.series("critic/critic_loss")
    if len(losses) < 100 or steps[-1] - steps[0] < limits.RECENT_STEPS:
        return None
    before, now = float(np.median(losses[len(losses) // 5 : len(losses) // 2])), float(np.median(losses[-len(losses) // 5 :]))
    low, high = records.spec.return_range or (0.0, 0.0)
    if not now > max(limits.LOSS_RISE * before, limits.LOSS_FLOOR * (high - low) ** 2):
        return None
    return Finding("critic_loss_rising", WARNING, {"before": before, "now": now, "factor": now / before if before else None})


def reward_never_seen(records: Records) -> Finding | None:
    if not records.episodes or records.kind not in ("rlpd", "ppo"):
        return None
    returns = [*records.series("environment/episode/r")[1], *records.series("Train/mean_reward")[1]]
    stored = any(step.reward for step in records.journal.sample) if records.journal is not None else False
    if not returns or any(value != 0 for value in returns) or stored or records.episodes < limits.EPISODES_TO_WARN:
        return None
    severity = PROBLEM if records.episodes >= limits.EPISODES_WITHOUT_REWARD else WARNING
    demos = sum(file.steps for file in records.demos or ())
    facts = {"episodes": records.episodes, "actor_step": records.clocks.actor_step, "task": records.task}
    return Finding("reward_never_seen", severity, facts | {"demos" if demos else "no_demos": demos or True})


def success_stuck(records: Records) -> Finding | None:
    """A person still helps a lot, and the policy alone does not improve."""
    _, helped = records.series("environment/episode/intervention_steps")
    _, lengths = records.series("environment/episode/l")
    _, alone = records.series("environment/episode/success_alone")
    if not records.reports_success or len(helped) < 60 or len(helped) != len(lengths) or records.clocks.learner_step < limits.RECENT_STEPS:
        return None
    third = len(helped) // 3
    share = float(helped[-third:].sum() / max(1.0, lengths[-third:].sum()))
    earlier = float(np.mean(alone[: len(alone) // 3])) if len(alone) >= 6 else 0.0
    now = float(np.mean(alone[-(len(alone) // 3) :])) if len(alone) >= 6 else 0.0
    if share < limits.INTERVENED_SHARE or now > earlier + 0.1 or now > 0.9:
        return None
    return Finding("success_stuck", WARNING, {"share": Share(share), "earlier": Share(earlier), "success": Share(now)})


def worse_than_demos(records: Records) -> Finding | None:
    reports = [file.report for file in records.demos or () if file.report is not None]
    values = records.newest("environment/episode/success", 20)
    if not reports or not len(values) or records.clocks.learner_step < limits.LATE_STEPS or records.kind != "rlpd":
        return None
    shown = sum(report.success_share * report.episodes for report in reports) / sum(report.episodes for report in reports)
    now = float(values.mean())
    if now >= limits.LITTLE_SUCCESS * shown:
        return None
    facts = {"success": Share(now), "demos": Share(shown), "learner_step": records.clocks.learner_step}
    return Finding("worse_than_demos", WARNING, facts)


def evaluation_differs(records: Records) -> Finding | None:
    """Two evaluations in a row differ strongly from the training episodes at the same time."""
    pairs, training = [], None
    for row in records.rows:
        training = row.get("environment/episode/success", row.get("Train/mean_success", training))
        if "eval/success" in row and training is not None:
            pairs.append((row["eval/success"], training))
    if len(pairs) < 2 or not records.sparse:
        return None
    below = all(judged < trained - limits.EVALUATION_BELOW for judged, trained in pairs[-2:])
    above = all(judged > trained + limits.EVALUATION_ABOVE for judged, trained in pairs[-2:])
    if not below and not above:
        return None
    judged, trained = pairs[-1]
    return Finding("evaluation_differs", WARNING, {"evaluated": Share(judged), "training": Share(trained)})


# ---- PPO


def ppo_not_finite(records: Records) -> Finding | None:
    dropped = records.newest("Loss/dropped_updates")
    if not len(dropped) or not dropped.sum() > 0:
        return None
    made = records.newest("Loss/updates")
    facts = {"dropped": int(dropped.sum()), "made": int(made.sum()) if len(made) else None, "iterations": len(dropped)}
    return Finding("ppo_not_finite", PROBLEM if dropped[-1] > 0 else WARNING, facts)


def ppo_kl_high(records: Records) -> Finding | None:
    values, wanted = records.newest("Policy/kl", 10), records.setting("desired_kl", 0.01) or 0.01
    if not len(values) or not float(np.median(values)) > limits.KL_FACTOR * wanted:
        return None
    return Finding("ppo_kl_high", WARNING, {"kl": float(np.median(values)), "wanted": wanted})


def ppo_clip_fraction_high(records: Records) -> Finding | None:
    values = records.newest("Policy/clip_fraction", 10)
    if not len(values) or not float(np.median(values)) > limits.CLIP_FRACTION:
        return None
    return Finding("ppo_clip_fraction_high", WARNING, {"share": Share(np.median(values)), "clip": records.setting("clip_param")})


def ppo_explained_variance_low(records: Records) -> Finding | None:
    values = records.newest("Value/explained_variance", 20)
    if not len(values) or records.clocks.learner_step < limits.PPO_WARM_UP or not float(np.median(values)) < 0:
        return None
    return Finding("ppo_explained_variance_low", WARNING, {"explained": float(np.median(values)), "iterations": len(values)})


def ppo_std_collapsed(records: Records) -> Finding | None:
    values = records.newest("Policy/mean_std")
    if not len(values) or not values[-1] < limits.STD_LOW:
        return None
    return Finding("ppo_std_collapsed", WARNING, {"std": float(values[-1])})


def ppo_std_runaway(records: Records) -> Finding | None:
    values, first = records.newest("Policy/mean_std"), records.setting("init_std", 1.0) or 1.0
    if not len(values) or not values[-1] > limits.STD_HIGH * first:
        return None
    return Finding("ppo_std_runaway", WARNING, {"std": float(values[-1]), "initial": first})
