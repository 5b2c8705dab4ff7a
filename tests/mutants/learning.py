"""Learner, trainer, replay buffers, mixing, seeds and evaluation."""

from tests.mutants.harness import Mutant

LEARNER = "off_policy/test_learner.py"
TRAINER = "off_policy/test_trainer.py"
INTERVENTIONS = "off_policy/test_interventions.py"
SEEDING = "test_seeding.py"
REPLAY = "data/test_replay.py"
MIXING = "data/test_mixing.py"
DISCARDS = "data/test_discards.py"
ACTOR = "acting/test_actor.py"
LOOK_AHEAD = "data/test_look_ahead.py"
SAC_TESTS = "agents/test_sac.py"
HORIZON = "off_policy/test_horizon.py"
EVALUATE = "acting/test_evaluate.py"

MUTANTS = [
    # ---- what comes next
    Mutant("sums_have_one_step", "data/replay.py", "None, self.n_step\n", "None, 1\n", (LOOK_AHEAD,)),
    Mutant("the_last_of_a_sum_is_not_discounted", "data/replay.py", "masks=discounts * self._masks", "masks=self._masks", (LOOK_AHEAD,)),
    Mutant(
        "any_row_of_an_episode_is_a_successor",
        "data/replay.py",
        " and self._steps[rows[-1]] == step - 1",
        "",
        (LOOK_AHEAD,),
    ),
    Mutant(
        "a_row_that_was_written_over_has_a_successor",
        "data/replay.py",
        "here = rows and self._episodes[rows[-1]] == episode and",
        "here = rows and",
        (LOOK_AHEAD,),
    ),
    Mutant("links_stay_when_rows_move", "data/replay.py", "            self._move_links(kept)\n", "", (LOOK_AHEAD,)),
    Mutant("a_time_out_has_a_return", "data/replay.py", "whole = step.terminated and", "whole =", (LOOK_AHEAD,)),
    Mutant("bounds_are_for_all", "data/mixing.py", '"demos": np.full(shape, -np.inf, np.float32)', '"demos": batch.bounds', (LOOK_AHEAD,)),
    Mutant("bounds_do_not_bound", "agents/losses.py", "        y = jnp.maximum(y, bounds)\n", "        y = y + 0 * bounds\n", (SAC_TESTS,)),
    Mutant(
        "own_actions_are_imitated",
        "data/mixing.py",
        "np.float32(imitation.corrections) * batch.imitation",
        "np.full(shape, np.float32(imitation.corrections))",
        (LOOK_AHEAD,),
    ),
    # ---- what a correction teaches
    Mutant(
        "a_take_over_for_nothing_is_blamed",
        "data/blame.py",
        "0.0 if blameless else weight, first",
        "weight, first",
        ("data/test_blame.py",),
    ),
    Mutant(
        "blame_passes_a_correction",
        "data/blame.py",
        "                if corrected[place]:\n                    break\n",
        "",
        ("data/test_blame.py",),
    ),
    Mutant(
        "blame_does_not_move_with_its_rows",
        "data/replay.py",
        "            self.blame.move(moved, len(kept))\n",
        "            pass\n",
        ("data/test_blame.py",),
    ),
    Mutant("a_penalty_is_not_summed", "data/blame.py", "summed if self._is_reward and", "summed if False and", ("data/test_blame.py",)),
    Mutant(
        "blame_is_a_bonus", "agents/sac.py", "            y -= self._blamed(", "            y += self._blamed(", ("agents/test_helping.py",)
    ),
    Mutant("the_newest_critics_blame", "agents/blaming.py", "(target(jnp", "(critic.values(jnp", ("agents/test_helping.py",)),
    Mutant(
        "the_critics_also_praise",
        "agents/blaming.py",
        "of_person.mean(axis=0), 0.0, most)",
        "of_person.mean(axis=0), -most, most)",
        ("agents/test_helping.py",),
    ),
    Mutant(
        "the_multiplier_climbs_down",
        "agents/anchoring.py",
        "return -jnp.mean(multiplier * (d",
        "return jnp.mean(multiplier * (d",
        ("agents/test_helping.py",),
    ),
    Mutant(
        "an_anchored_actor_only_imitates",
        "agents/anchoring.py",
        "jnp.mean((losses + multiplier * d)",
        "jnp.mean((multiplier * d)",
        ("agents/test_helping.py",),
    ),
    Mutant(
        "own_rows_teach_the_model_of_people",
        "agents/anchoring.py",
        "theirs = (weights > 0)",
        "theirs = (weights >= 0)",
        ("agents/test_helping.py",),
    ),
    Mutant("tags_are_lost", "codec.py", "for name in _FIELDS} | tag)", "for name in _FIELDS})", ("test_codec.py",)),
    # ---- stand-ins
    Mutant(
        "the_late_are_not",
        "teleop/scripted_person.py",
        "(round(self.flaws.late_s * self._hz) if watched else 0)",
        "0",
        ("teleop/test_people.py",),
    ),
    Mutant(
        "who_is_asked_watches_too",
        "teleop/scripted_person.py",
        "self._due, self._present = -1, not self.flaws.asked_only",
        "self._due, self._present = -1, True",
        ("teleop/test_people.py",),
    ),
    Mutant(
        "every_ask_is_right",
        "teleop/scripted_person.py",
        "self._step, bool(why), seconds))",
        "self._step, True, seconds))",
        ("teleop/test_people.py",),
    ),
    # ---- the start
    Mutant("critics_do_not_learn_first", "off_policy/learner.py", "self.steps >= wait and ", "", (TRAINER,)),
    Mutant("critics_do_not_wait_for_episodes", "off_policy/learner.py", " and self.episodes.finished >= FIRST_EPISODES", "", (TRAINER,)),
    Mutant(
        "starts_from_random_parameters",
        "off_policy/trainer.py",
        "        if start is not None:\n            self.learner.start_from(start)\n",
        "",
        (TRAINER,),
    ),
    Mutant("explores_in_every_episode", "acting/actor.py", "not skilled or self._random", "True or self._random", (ACTOR,)),
    Mutant("does_not_explore_before_it_is_skilled", "acting/actor.py", "not skilled or self._random", "self._random", (ACTOR,)),
    Mutant("imitation_never_fades", "off_policy/learner.py", "return 1.0 - self.episodes.alone_of_window", "return 1.0", (TRAINER,)),
    Mutant("bounds_never_go", "off_policy/learner.py", "self.imitation, self._failing**2)", "self.imitation, 1.0)", (TRAINER,)),
    Mutant(
        "the_newest_actor_is_judged",
        "agents/sac.py",
        "policy_parameters(with_eyes(state.actor, state.critic) if state.average is None else state.average)",
        "policy_parameters(with_eyes(state.actor, state.critic))",
        (SAC_TESTS,),
    ),
    Mutant("a_typed_discount_is_overruled", "off_policy/horizon.py", 'if agent.discount == "auto":', "if True:", (HORIZON,)),
    # ---- the learner
    Mutant(
        "rollback_is_only_counted",
        "off_policy/learner.py",
        "        self.state = self.agent.copy(self.good_state)\n        self._say",
        "        self._say",
        (LEARNER,),
    ),
    Mutant("rollback_is_not_counted", "off_policy/learner.py", "        self.rolled_back += 1\n", "", (LEARNER,)),
    Mutant(
        "good_state_is_never_kept",
        "off_policy/learner.py",
        "            self.good_state = self.agent.copy(self.state)\n            self.good_temperature",
        "            self.good_temperature",
        (LEARNER,),
    ),
    Mutant(
        "state_is_judged_by_the_update_before_it", "off_policy/learner.py", "{**self.metrics, **values}", "{**self.metrics}", (LEARNER,)
    ),
    Mutant(
        "entropy_counts_as_divergence", "off_policy/learner.py", "    if not agent.backup_entropy:\n", "    if agent.hidden:\n", (LEARNER,)
    ),
    Mutant(
        "entropy_excuses_any_value",
        "off_policy/learner.py",
        "    return limit + discount / (1 - discount) * temperature * largest_entropy",
        "    return math.inf",
        (LEARNER,),
    ),
    Mutant(
        "temperature_excuses_its_own_state",
        "off_policy/learner.py",
        "q_limit(self.spec, self.config.agent, self.good_temperature)",
        'q_limit(self.spec, self.config.agent, metrics["actor/temperature"])',
        (LEARNER,),
    ),
    Mutant(
        "publishes_during_pretraining", "off_policy/learner.py", "            if not before_actors:\n", "            if True:\n", (LEARNER,)
    ),
    Mutant("publishes_at_every_step", "off_policy/learner.py", "self.steps % self.config.steps_per_update == 0", "True", (LEARNER,)),
    Mutant(
        "pretrains_on_online_data_too", "off_policy/learner.py", "1.0 if before_actors else self.demo_share", "self.demo_share", (LEARNER,)
    ),
    Mutant("pretraining_never_ends", "off_policy/learner.py", "1.0 if before_actors else self.demo_share", "1.0", (LEARNER,)),
    Mutant(
        "corrections_count_as_recorded_demonstrations",
        "off_policy/learner.py",
        "recorded=bool(demos)",
        "recorded=True",
        (LEARNER,),
    ),
    Mutant(
        "acted_with_goes_back",
        "off_policy/learner.py",
        "max(self.acted_with, *(step.policy_version for step in steps), -1)",
        "max((step.policy_version for step in steps), default=self.acted_with)",
        (LEARNER,),
    ),
    Mutant("digest_ignores_the_source", "off_policy/learner.py", '{digest} {step.source} {step.seq}"', '{digest} {step.seq}"', (LEARNER,)),
    Mutant(
        "digest_ignores_the_order",
        "off_policy/learner.py",
        "    for step in steps:\n        digest",
        "    for step in sorted(steps, key=lambda step: step.seq):\n        digest",
        (LEARNER,),
    ),
    Mutant(
        "steps_thrown_away_are_stored",
        "off_policy/learner.py",
        "            if (step.source, step.episode) not in self.discarded:\n",
        "            if step:\n",
        (LEARNER,),
    ),
    Mutant(
        "old_corrections_are_lost_on_resume",
        "off_policy/saving.py",
        "            learner.store_correction(step, number)\n",
        "            pass\n",
        (INTERVENTIONS,),
    ),
    Mutant(
        "resume_fills_up_a_ring_that_had_free_rows",
        "off_policy/saving.py",
        "        replay.drop_before(learner.received if oldest is None else oldest)\n",
        "        replay.drop_before(-1)\n",
        (INTERVENTIONS,),
    ),
    # ---- the trainer
    Mutant(
        "rows_have_the_clocks_of_the_next_one",
        "off_policy/trainer.py",
        "self.report(self._logged | row.known, row.clocks, row.wall_s)",
        "self.report(self._logged | row.known)",
        (TRAINER,),
    ),
    Mutant(
        "rows_are_not_written_before_a_checkpoint",
        "off_policy/saving.py",
        "    trainer.write_row()\n    learner",
        "    learner",
        (TRAINER,),
    ),
    Mutant(
        "rows_are_not_written_before_an_evaluation",
        "off_policy/trainer.py",
        "        self.write_row()\n        at = f",
        "        at = f",
        (TRAINER,),
    ),
    Mutant(
        "the_last_row_of_a_broken_run_is_lost",
        "off_policy/sync.py",
        "                trainer.write_row()\n",
        "                pass\n",
        (TRAINER,),
    ),
    Mutant(
        "twice_the_updates_per_actor_step",
        "off_policy/trainer.py",
        "self.config.updates_per_actor_step * new",
        "2 * self.config.updates_per_actor_step * new",
        (TRAINER,),
    ),
    Mutant("updates_cost_nothing", "off_policy/trainer.py", "        self.progress.credit -= 1\n", "", (TRAINER,)),
    Mutant(
        "no_pretraining_at_all", "off_policy/trainer.py", "        while self.learner.pretraining:\n", "        while False:\n", (TRAINER,)
    ),
    Mutant(
        "stops_at_the_first_good_evaluation",
        "runs/campaign.py",
        "progress.reached >= self.rules.stop_evaluations",
        "progress.reached >= 1",
        (TRAINER,),
    ),
    Mutant(
        "resume_stores_what_was_thrown_away",
        "off_policy/saving.py",
        "refill(learner, received, journal.discarded(), ",
        "refill(learner, received, set(), ",
        (INTERVENTIONS,),
    ),
    Mutant(
        "random_steps_are_ignored",
        "acting/actor.py",
        "self._policy is None or self.steps < self._random_steps",
        "self._policy is None",
        (TRAINER,),
    ),
    # ---- seeds
    Mutant("final_episodes_are_those_of_the_selection", "acting/judge.py", '"final", self._final', '"selection", self._final', (SEEDING,)),
    Mutant("selection_is_on_the_final_episodes", "acting/judge.py", '"selection", self._eval', '"final", self._eval', (SEEDING,)),
    Mutant(
        "purposes_share_their_seeds", "seeding.py", "_mixed(run_seed, _KEYS[purpose], *index)", "_mixed(run_seed, 0, *index)", (SEEDING,)
    ),
    Mutant("runs_share_their_seeds", "seeding.py", "SeedSequence(run_seed, spawn_key=key)", "SeedSequence(0, spawn_key=key)", (SEEDING,)),
    Mutant("seeds_of_32_bits", "seeding.py", "int(word) >> 1", "int(word) >> 32", (SEEDING,)),
    Mutant("actor_processes_share_their_seeds", "seeding.py", "hashlib.sha256(source.encode())", "hashlib.sha256(b'')", (SEEDING,)),
    Mutant("a_resume_repeats_the_first_starts", "acting/actor.py", "self.env.num_envs, self.steps)", "self.env.num_envs, 0)", (SEEDING,)),
    Mutant(
        "a_ppo_resume_repeats_the_first_starts",
        "on_policy/collector.py",
        "self._config.num_envs, start)",
        "self._config.num_envs, 0)",
        (SEEDING,),
    ),
    Mutant(
        "a_failed_demonstration_is_tried_from_the_same_start",
        "programs/record.py",
        '"demonstrations", kept + failed)',
        '"demonstrations", kept)',
        ("programs/test_record.py",),
    ),
    Mutant(
        "eval_does_not_ask_for_the_runs_seed",
        "programs/evaluate.py",
        "seed_of(policy or Path(run)) if seed is None",
        "0 if seed is None",
        (SEEDING,),
    ),
    # ---- replay and mixing
    Mutant(
        "rows_are_counted_by_place",
        "data/replay.py",
        "return ages if self.inserted <= self.capacity else (ages + self.inserted) % self.capacity",
        "return ages",
        (REPLAY,),
    ),
    Mutant(
        "next_observation_is_the_observation",
        "data/replay.py",
        "self._layout.flatten(transition.next_observation)",
        "self._layout.flatten(transition.observation)",
        (REPLAY,),
    ),
    Mutant(
        "a_time_out_has_no_future", "data/replay.py", "0.0 if transition.terminated else 1.0", "0.0 if transition.last else 1.0", (REPLAY,)
    ),
    Mutant("corrected_rows_are_not_flagged", "data/replay.py", "= transition.corrected\n", "= 0.0\n", (INTERVENTIONS,)),
    Mutant("forget_keeps_what_it_should_drop", "data/replay.py", "places[~np.isin(", "places[np.isin(", (DISCARDS,)),
    Mutant(
        "the_oldest_row_is_dropped", "data/replay.py", "self._numbers[places] >= number", "self._numbers[places] > number", (INTERVENTIONS,)
    ),
    Mutant(
        "corrections_are_no_demonstrations",
        "data/mixing.py",
        "    if step.intervened and demos is not None:\n",
        "    if False:\n",
        (MIXING,),
    ),
    Mutant(
        "corrections_leave_the_online_replay",
        "data/mixing.py",
        "    online.insert(step, number, switches)\n",
        "    if not step.intervened:\n        online.insert(step, number, switches)\n",
        (MIXING,),
    ),
    Mutant("one_correction_fills_half_of_every_batch", "data/mixing.py", "min(rows, len(self.demos))", "rows", (MIXING,)),
    Mutant("few_demonstrations_fill_few_rows", "data/mixing.py", "rows if self.recorded else min", "min", (MIXING,)),
    Mutant("a_third_of_a_batch_is_demonstrations", "data/mixing.py", "DEMO_SHARE = 0.5", "DEMO_SHARE = 1 / 3", (MIXING,)),
    # ---- evaluation
    Mutant("ended_rows_go_on_counting", "acting/evaluate.py", "        length += running\n", "        length += 1\n", (EVALUATE,)),
    Mutant(
        "success_is_forgotten",
        "acting/evaluate.py",
        "        success |= step.success\n",
        "        success = step.success\n",
        (EVALUATE,),
    ),
    Mutant("the_interval_has_no_width", "acting/evaluate.py", "z: float = 1.96", "z: float = 0.0", (EVALUATE,)),
]
