CREATE TABLE "change_policy" ("id" INTEGER NOT NULL PRIMARY KEY, "project" VARCHAR(255) NOT NULL, "stack_id" VARCHAR(36) NOT NULL, "document" LONGTEXT, "version" INTEGER NOT NULL, "updated_by" VARCHAR(255), "updated_at" REAL)
CREATE UNIQUE INDEX "changepolicy_project_stack_id" ON "change_policy" ("project", "stack_id")
CREATE INDEX "changepolicy_stack_id" ON "change_policy" ("stack_id")
