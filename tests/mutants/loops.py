"""Actor, recorder, limits, link, journal, checkpoints, clocks, campaign."""

from tests.mutants.harness import Mutant

ACTOR = "acting/test_actor.py"
SELF_HELP, ASKING, NOTICING = "acting/test_self_help.py", "acting/test_asking.py", "acting/test_noticing.py"
EPISODE = "data/test_episode.py"
LIMITS = "acting/test_limits.py"
CREDITS = "link/test_credits.py"
SPOOL = "link/test_spool.py"
CONTRACT = "link/test_link_contract.py"
JOURNAL = "data/test_journal.py"
CAMPAIGN = "runs/test_campaign.py"
CLOCKS = "runs/test_clocks.py"

MUTANTS = [
    # ---- the actor and what it records
    Mutant(
        "next_observation_is_that_of_the_reset",
        "acting/actor.py",
        "        self._observation = step.observation\n        self._made",
        "        if step.ended.any():\n            step.observation.update(self.env.reset(np.flatnonzero(step.ended).tolist()))\n"
        "        self._observation = step.observation\n        self._made",
        (ACTOR,),
    ),
    Mutant("ended_rows_are_never_reset", "acting/actor.py", "        self.ended |= judged.step.ended\n", "", (ACTOR,)),
    Mutant(
        "the_asked_action_is_stored_instead_of_the_executed_one",
        "data/episode.py",
        "asked if step.executed is None else step.executed[row]",
        "asked",
        (EPISODE, ACTOR),
    ),
    Mutant(
        "an_environments_own_intervention_is_lost",
        "data/episode.py",
        "intervened or (step.intervened",
        "intervened and (step.intervened",
        (EPISODE, ACTOR),
    ),
    Mutant("a_number_is_used_twice", "data/episode.py", "        self.seq += 1\n", "        self.seq += not transition.last\n", (EPISODE,)),
    Mutant("observations_share_their_memory", "data/episode.py", "np.array(value, dtype=", "np.asarray(value, dtype=", (EPISODE,)),
    Mutant(
        "a_late_label_ends_the_next_episode", "acting/verdicts.py", "episode is not None and episode != recorder.episode", "False", (ACTOR,)
    ),
    # ---- helping itself, and asking
    Mutant(
        "an_answer_to_an_ask_releases_a_stop",
        "acting/control_loop.py",
        '        elif command.command == "resume" and command.detail.get("ask"):\n            self._end_ask("dismissed")\n',
        "",
        (SELF_HELP,),
    ),
    Mutant(
        "a_robot_that_asks_does_not_hold",
        "acting/control_loop.py",
        "elif self._stands() or self._waits_alone() or self._waits_for_help():",
        "elif self._stands() or self._waits_alone():",
        (SELF_HELP,),
    ),
    Mutant(
        "a_hand_does_not_end_the_way_back", "acting/self_help.py", "            self.retrace.stop()\n", "            pass\n", (SELF_HELP,)
    ),
    Mutant(
        "the_way_back_goes_forward",
        "acting/getting_out.py",
        "np.where(moves, beside - back,",
        "np.where(moves, beside + back,",
        (SELF_HELP,),
    ),
    Mutant("the_way_back_opens_the_gripper", "acting/getting_out.py", "still(self._layout, standing)", "self._layout.rest", (SELF_HELP,)),
    Mutant("episodes_with_help_count_as_usual", "acting/self_help.py", "self._alone and self._succeeded", "self._succeeded", (SELF_HELP,)),
    Mutant("a_full_budget_is_asked_anyway", "acting/asking.py", "return not full or", "return True or", (ASKING,)),
    Mutant("nobody_is_asked_again_and_again", "acting/asking.py", 'if ending == "unanswered" else', 'if ending == "" else', (ASKING,)),
    Mutant("a_rise_is_no_new_best", "acting/noticing.py", "if value > best + rise:", "if value > best + 1e9:", (NOTICING,)),
    # ---- limits
    Mutant(
        "limits_are_never_asked",
        "acting/limits.py",
        "        allowed = self._limits.rows(self._observation, asked)\n",
        "        allowed = asked\n",
        (ACTOR, LIMITS),
    ),
    Mutant("limits_hold_in_one_row", "acting/limits.py", "for row in range(len(actions)):", "for row in range(1):", (ACTOR, LIMITS)),
    Mutant(
        "the_executed_action_under_limits_is_not_reported",
        "acting/limits.py",
        "        if allowed is asked or step.executed is not None:\n",
        "        if True:\n",
        (ACTOR, LIMITS),
    ),
    Mutant(
        "limits_stop_motion_away_from_the_force", "acting/limits.py", "        if against < 0:\n", "        if against > 0:\n", (LIMITS,)
    ),
    Mutant(
        "outside_the_workspace_nothing_may_come_back",
        "acting/limits.py",
        "np.minimum(0.0, (self._low[axes]",
        "np.maximum(0.0, (self._low[axes]",
        (LIMITS,),
    ),
    Mutant(
        "the_command_ahead_of_the_tool_is_ignored", "acting/limits.py", "        if settings.offset:\n", "        if False:\n", (LIMITS,)
    ),
    # ---- the link
    Mutant("credits_ignore_what_is_under_way", "link/credits.py", " - sum(account.outstanding for account in accounts)", "", (CREDITS,)),
    Mutant(
        "credits_count_updates_as_steps",
        "link/credits.py",
        "pacing.learner_step / pacing.updates_per_actor_step",
        "pacing.learner_step",
        (CREDITS,),
    ),
    Mutant(
        "a_reconnect_sends_nothing_again",
        "link/outbox.py",
        "self.sent, self.groups_under_way = self.acknowledged, 0",
        "self.groups_under_way = 0",
        (CONTRACT, "link/test_link_faults.py", "link/test_websocket_link.py"),
    ),
    Mutant(
        "a_group_is_acknowledged_before_it_is_stored",
        "link/outbox.py",
        "            if records:\n                break\n",
        "            if records:\n                reader.acknowledged = reader.sent\n                break\n",
        (CONTRACT, "link/test_link_faults.py", "link/test_websocket_link.py"),
    ),
    Mutant("a_torn_record_is_read", "link/spool.py", "zlib.crc32(content)) + content", "zlib.crc32(content[:4])) + content", (SPOOL,)),
    Mutant(
        "half_a_group_stays_in_a_full_spool",
        "link/spool.py",
        "                os.ftruncate(self._file, offset)  # else the next write leaves a part of it behind\n",
        "                pass\n",
        (SPOOL,),
    ),
    # ---- what is believed
    Mutant(
        "every_finite_reward_is_believed",
        "data/validation.py",
        "return None if low <= reward <= high else",
        "return None if True else",
        ("data/test_plausibility.py",),
    ),
    Mutant(
        "every_finite_observation_is_believed",
        "data/rejection.py",
        "    if not len(beyond):\n",
        "    if True:\n",
        ("data/test_plausibility.py",),
    ),
    Mutant("the_believed_range_is_the_known_one", "data/plausibility.py", "MARGIN = 100.0", "MARGIN = 0.0", ("data/test_plausibility.py",)),
    # ---- files
    Mutant(
        "a_step_is_stored_twice",
        "data/journal.py",
        "ON CONFLICT (source, seq) DO NOTHING",
        "ON CONFLICT (source, seq) DO UPDATE SET record = excluded.record",
        (JOURNAL,),
    ),
    Mutant(
        "discarded_episodes_are_read",
        "data/journal.py",
        'kept = "" if with_discarded else self._kept()',
        'kept = ""',
        ("data/test_discards.py",),
    ),
    Mutant(
        "the_only_checkpoint_is_removed",
        "runs/checkpoint.py",
        "_complete(folder)[:-KEPT]",
        "_complete(folder)",
        (CAMPAIGN, "off_policy/test_train.py"),
    ),
    # ---- clocks and campaign
    Mutant(
        "versions_are_counted_as_learner_steps",
        "runs/clocks.py",
        "return learner_steps // steps_per_update",
        "return learner_steps",
        (CLOCKS,),
    ),
    Mutant("rates_go_back_beyond_a_restart", "runs/clocks.py", "            start = i\n", "            start = 0\n", (CLOCKS,)),
    Mutant(
        "the_first_best_policy_is_never_replaced",
        "runs/campaign.py",
        "score.value >= progress.best",
        "score.value > progress.best and self.best is None",
        (CAMPAIGN,),
    ),
    Mutant(
        "an_asked_for_evaluation_stops_the_run", "runs/campaign.py", "elif asked.scheduled and self.rules", "elif self.rules", (CAMPAIGN,)
    ),
    Mutant("the_latest_policy_is_judged_at_the_end", "runs/campaign.py", "chosen = self.best or latest", "chosen = latest", (CAMPAIGN,)),
    Mutant("a_resume_forgets_the_best", "runs/campaign.py", "if self.progress.best_step >= 0 and", "if False and", (CAMPAIGN,)),
]
