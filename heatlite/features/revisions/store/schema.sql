CREATE TABLE "revision" ("id" INTEGER NOT NULL PRIMARY KEY, "stack_id" VARCHAR(36) NOT NULL, "number" INTEGER NOT NULL, "template_id" VARCHAR(64) NOT NULL, "environment" LONGTEXT NOT NULL, "tags" LONGTEXT NOT NULL, "timeout_mins" INTEGER, "disable_rollback" INTEGER NOT NULL, "requested_by" VARCHAR(255) NOT NULL, "created_at" REAL NOT NULL, "action_id" VARCHAR(36), "plan_digest" VARCHAR(64), "result" VARCHAR(16), "undo_of" INTEGER)
CREATE INDEX "revision_template_id" ON "revision" ("template_id")
CREATE UNIQUE INDEX "revision_stack_id_number" ON "revision" ("stack_id", "number")
