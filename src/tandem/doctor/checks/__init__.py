"""All checks in order of importance: of two findings of equal severity, the earlier one is the likelier cause of the other.

First: can the hub be reached? Then: do the processes run and can they write? Do the actors use the published policies? Is the
data usable? Does training run? Does it go well?
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from tandem.doctor.checks import (
    actors,
    cameras,
    data,
    demo_episodes,
    demo_numbers,
    demo_pictures,
    demos,
    learning,
    processes,
    reaching,
    training,
)
from tandem.doctor.findings import NOTE, SEVERITIES, Finding
from tandem.doctor.records import Records

Check = Callable[[Records], Finding | None]

CHECKS: tuple[Check, ...] = (
    reaching.address_unknown,
    reaching.host_unreachable,
    reaching.connection_refused,
    reaching.no_answer,
    reaching.not_a_hub,
    reaching.untrusted_certificate,
    reaching.wrong_token,
    reaching.other_version,
    processes.run_broke,
    processes.part_failed,
    processes.run_died,
    processes.disk_full,
    processes.journal_unreadable,
    processes.hub_silent,
    processes.trainer_dead,
    reaching.other_task,
    reaching.other_spec,
    reaching.actor_refused,
    reaching.foreign_steps,
    actors.no_actor,
    actors.actor_silent,
    actors.actor_gone,
    actors.steps_lost,
    training.versions_went_back,
    training.policies_not_published,
    actors.policies_not_applied,
    actors.still_random,
    actors.no_steps,
    demos.demos_missing,
    demos.demos_foreign,
    demos.demos_broken,
    demos.demos_empty,
    demos.demos_without_reward,
    demo_episodes.demos_mixed_specs,
    demo_episodes.demos_end_inside,
    demo_episodes.demos_success_unpaid,
    demo_pictures.demos_pictures_black,
    training.still_filling,
    learning.critic_diverged,
    learning.ppo_not_finite,
    training.parameters_frozen,
    cameras.encoder_differs,
    cameras.camera_frozen,
    cameras.camera_blind,
    cameras.camera_exposed,
    cameras.camera_late,
    data.observations_clipped,
    data.success_without_reward,
    data.steps_rejected,
    actors.actions_constant,
    learning.reward_never_seen,
    processes.paused,
    actors.robot_held,
    processes.often_restarted,
    processes.environment_stalled,
    training.updates_dropped,
    training.learner_slow,
    actors.policy_lag,
    actors.control_rate_low,
    reaching.failed_logins,
    reaching.link_backlog,
    reaching.link_slow,
    actors.stuck_at_limit,
    actors.actions_saturated,
    data.timeouts_as_terminal,
    data.terminal_without_reward,
    data.steps_missing,
    cameras.cameras_swapped,
    data.observations_drifted,
    demo_episodes.demos_doubled,
    demo_episodes.demos_copies,
    demo_episodes.demos_one_step,
    demo_episodes.demos_steps_missing,
    demo_episodes.demos_end_missing,
    demo_numbers.demos_response_mixed,
    demo_numbers.demos_scales_mixed,
    demo_pictures.demos_pictures_swapped,
    demo_pictures.demos_pictures_frozen,
    demo_numbers.demos_state_stale,
    demo_numbers.demos_channels_dead,
    demo_numbers.demos_channels_frozen,
    demo_numbers.demos_channels_clipped,
    demo_numbers.demos_quaternions_flip,
    demo_numbers.demos_angles_wrap,
    demo_numbers.demos_gripper_label,
    demos.demos_fail,
    demo_episodes.demos_timeouts_terminal,
    demo_episodes.demos_reward_always,
    demo_episodes.demos_too_long,
    demos.demos_idle,
    demos.demos_saturated,
    demo_numbers.demos_actions_small,
    demo_numbers.demos_axis_unused,
    demo_episodes.demos_starts_alike,
    learning.q_overestimated,
    learning.ensemble_collapsed,
    learning.critic_loss_rising,
    learning.temperature_runaway,
    learning.entropy_collapsed,
    learning.entropy_high,
    learning.success_stuck,
    learning.evaluation_differs,
    learning.worse_than_demos,
    learning.ppo_kl_high,
    learning.ppo_clip_fraction_high,
    learning.ppo_explained_variance_low,
    learning.ppo_std_collapsed,
    learning.ppo_std_runaway,
    data.disk_will_fill,
    data.memory_will_fill,
    data.no_gl,
    processes.interrupted,
    reaching.clocks_differ,
    data.entries_constant,
    demo_episodes.demos_few,
    demo_numbers.demos_channels_constant,
    data.return_range_unknown,
    demos.no_demos,
    data.few_cores,
    data.gpu_present,
    data.other_tandem,
)


_BAD_RESULTS = ("worse_than_demos", "reward_never_seen", "evaluation_differs", "success_stuck", "entropy_high", "stuck_at_limit")
_NO_DATA = ("no_steps", "still_filling", "learner_slow", "policies_not_applied", "policy_lag", "control_rate_low")
EXPLAINS: dict[str, tuple[str, ...]] = {
    "run_broke": ("part_failed", "run_died", "interrupted", *_BAD_RESULTS),
    "part_failed": ("run_died", "interrupted", "no_actor", "actor_gone", "actor_silent", "hub_silent", "often_restarted", *_NO_DATA),
    "observations_clipped": _BAD_RESULTS,
    "camera_frozen": ("camera_blind", "cameras_swapped", *_BAD_RESULTS),
    "camera_blind": ("cameras_swapped", *_BAD_RESULTS),
    "cameras_swapped": _BAD_RESULTS,
    "disk_full": ("link_backlog", "no_steps", "learner_slow"),
    "hub_silent": ("actor_silent", *_NO_DATA),
    "trainer_dead": (*_NO_DATA, "link_backlog"),
    "no_actor": _NO_DATA,
    "actor_silent": _NO_DATA,
    "actor_gone": _NO_DATA,
    "robot_held": _NO_DATA,
    "paused": ("learner_slow", "no_steps"),
    "versions_went_back": ("policies_not_applied", "policy_lag", *_BAD_RESULTS),
    "policies_not_published": ("policies_not_applied", "policy_lag", *_BAD_RESULTS),
    "policies_not_applied": ("policy_lag", "actions_saturated", *_BAD_RESULTS),
    "still_random": ("actions_saturated", *_BAD_RESULTS),
    "demos_without_reward": _BAD_RESULTS,
    "demos_pictures_black": ("demos_pictures_frozen",),
    "demos_copies": ("demos_one_step", "demos_state_stale", "demos_reward_always", "demos_idle"),
    "demos_broken": ("demos_steps_missing",),
    "demos_response_mixed": ("demos_scales_mixed",),
    "demos_doubled": ("demos_starts_alike",),
    "demos_state_stale": ("demos_channels_frozen", "demos_pictures_frozen"),
    "demos_end_inside": ("demos_steps_missing",),
    "critic_diverged": (
        "parameters_frozen",
        "updates_dropped",
        "q_overestimated",
        "critic_loss_rising",
        "temperature_runaway",
        *_BAD_RESULTS,
    ),
    "ppo_not_finite": ("parameters_frozen", *_BAD_RESULTS),
    "parameters_frozen": ("entropy_collapsed", *_BAD_RESULTS),
    "success_without_reward": ("terminal_without_reward", *_BAD_RESULTS),
    "actions_constant": _BAD_RESULTS,
    "learner_slow": ("policy_lag",),
}
"""Findings that usually follow from another one: the report lists the cause, with the names of what it explains."""


def run_checks(records: Records) -> list[Finding]:
    """All findings, the worst first, then in the order of the table. Findings that follow from a problem are listed with it."""
    findings = [finding for check in CHECKS if (finding := check(records)) is not None]
    findings.sort(key=lambda finding: SEVERITIES.index(finding.severity))
    reported: list[Finding] = []
    left = findings
    while left:
        cause, *rest = left
        follows = EXPLAINS.get(cause.name, ()) if cause.severity != NOTE else ()
        reported.append(dataclasses.replace(cause, explains=tuple(finding.name for finding in rest if finding.name in follows)))
        left = [finding for finding in rest if finding.name not in follows]
    return reported
