//! The kind `serverless-ecs`: a job is a task on AWS Fargate.
