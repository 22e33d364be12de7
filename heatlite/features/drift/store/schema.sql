CREATE TABLE "drift" ("resource_id" VARCHAR(36) NOT NULL PRIMARY KEY, "project" VARCHAR(255) NOT NULL, "root_id" VARCHAR(36) NOT NULL, "stack_id" VARCHAR(36) NOT NULL, "state" VARCHAR(16) NOT NULL, "checked_at" REAL, "since" REAL, "unknown_since" REAL, "differences" LONGTEXT, "truncated" INTEGER NOT NULL, "number" INTEGER NOT NULL, "ignored" INTEGER NOT NULL)
CREATE INDEX "drift_project_state_resource_id" ON "drift" ("project", "state", "resource_id")
CREATE INDEX "drift_root_id_state_checked_at" ON "drift" ("root_id", "state", "checked_at")
CREATE INDEX "drift_project_ignored" ON "drift" ("project", "ignored")
