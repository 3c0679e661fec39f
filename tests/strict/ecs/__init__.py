"""Amazon ECS on Fargate, as strict as the real service about a launcher's mistakes.

Client tokens of RunTask are remembered and expire as the API reference says ("Ensuring idempotency"). Rates are the real
ones, reads are eventually consistent, stopped tasks disappear, and events come twice and out of order. With Docker, the
container of a task really runs.

    python -m strict.ecs --config state.yaml

The state is that of `strict`, with `aws.accounts.<id>.ecs` (the resources) and `aws.ecs` (the behaviour); see
`settings.py`.
"""
