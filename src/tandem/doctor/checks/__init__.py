"""All checks, in the order of importance: of two findings that are as bad, the one further up is the likelier cause of the other.

First whether anybody can be reached, then whether the processes live and can write, then whether actors act with what is
published, then what is learned from, then whether training does anything, then whether it goes well.
"""

from __future__ import annotations

from collections.abc import Callable

from tandem.doctor.checks import actors, data, demos, learning, processes, reaching, training
from tandem.doctor.findings import Finding
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
    processes.run_died,
    processes.disk_full,
    processes.journal_unreadable,
    processes.hub_silent,
    processes.trainer_dead,
    reaching.other_task,
    reaching.other_spec,
    reaching.actor_refused,
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
    training.still_filling,
    learning.critic_diverged,
    learning.ppo_not_finite,
    training.parameters_frozen,
    data.success_without_reward,
    data.steps_rejected,
    actors.actions_constant,
    learning.reward_never_seen,
    processes.paused,
    processes.often_restarted,
    training.updates_dropped,
    training.learner_slow,
    actors.policy_lag,
    actors.control_rate_low,
    reaching.link_backlog,
    reaching.link_slow,
    actors.stuck_at_limit,
    actors.actions_saturated,
    data.timeouts_as_terminal,
    data.terminal_without_reward,
    data.steps_missing,
    data.observations_drifted,
    demos.demos_fail,
    demos.demos_idle,
    demos.demos_saturated,
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
    data.observations_clipped,
    demos.no_demos,
    data.few_cores,
    data.gpu_present,
    data.other_tandem,
)


def run_checks(records: Records) -> list[Finding]:
    """All findings, the worst first and then in the order of the table."""
    findings = [finding for check in CHECKS if (finding := check(records)) is not None]
    order = ("problem", "warning", "note")
    return sorted(findings, key=lambda finding: order.index(finding.severity))
