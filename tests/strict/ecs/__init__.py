"""Amazon ECS on Fargate, as strict as the real one about what a launcher may get wrong.

Tokens of RunTask are remembered as the API reference says ("Ensuring idempotency"), and forgotten; rates are
the real ones; reads lag behind; stopped tasks vanish; events come twice and out of order. With Docker, the
container of a task really runs.

    python -m strict.ecs --config state.yaml

The state is that of `strict`, with `aws.accounts.<id>.ecs` (what there is) and `aws.ecs` (how it behaves);
see `settings.py`.
"""
