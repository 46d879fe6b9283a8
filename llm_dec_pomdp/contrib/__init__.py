"""Environment families and learners outside the core, one folder each, with lower promises about stability.

| folder | ids |
|---|---|
| `software` | classeval-v0, modules-v0, merge-v0 |
| `calls` | calls-v0, bfcl-v0, bfcl-parallel-v0 |
| `planning` | meeting-v0, trip-v0, repair-v0 |
| `research` | research-v0 |
| `scouts` | scouts-v0 |
| `memory` | memory-v0 |
| `games` | bandit-v0, pennies-v0, kuhn-v0, staghunt-v0, verify-v0, debate-v0 |
| `incident` | incident-v0 |
| `external_games` | games of GEM and TextArena, by address |
| `learners` | distil |

A family imports only the public names of the core, as packages of other authors do, and no other family. Its ids are
entry points of this distribution. The core never imports a family.

A new environment, learner or wrapper is first added here, with a module docstring (its environment page) and tests in
`tests/contrib`. It moves to the core once two core modules depend on it. Its rewards and options may change in any
release, with a line in the changelog.
"""
